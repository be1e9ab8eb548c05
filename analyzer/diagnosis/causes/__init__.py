"""The causes: from one incident's rows to findings, a module per family; `verdict` beside this package ranks them."""
