"""Devices on which a person need not prove the second factor for some days, because they have done it there."""
