"""Other people's command lines: one door for processes (``shell``) and one thin façade per tool."""
