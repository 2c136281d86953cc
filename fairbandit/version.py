"""The version of the package; the build reads it from here."""

VERSION = "0.4.0"
