"""The instrument: collapse, threshold, calibration, measurement, in the order in which data flows."""
