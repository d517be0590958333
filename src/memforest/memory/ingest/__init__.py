"""The write path of one memory: from turns as they come to committed facts."""
