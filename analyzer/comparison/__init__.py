"""Two captures side by side: before and after a fix, two instances, or two windows of one trace."""
