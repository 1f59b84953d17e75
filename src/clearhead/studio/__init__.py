"""The studio: every view and every use in one web application, on this machine alone."""
