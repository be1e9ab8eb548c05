"""The report in other forms than the page: Markdown for a ticket, JSON, PDF, and its charts as pictures.

All of them are made from the one `ReportData` that the page is made from.
"""
