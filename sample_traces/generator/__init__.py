"""Models of the engines' schedulers in virtual time, and the log lines they would have printed."""
