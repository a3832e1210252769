"""What every test shares: property tests have no deadline, since a busy machine is not a fault of ours."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
