"""Every setting, once: ``ironauth.settings`` reads them, ``ironauth.config.reference`` writes them down.

To add one, add its entry to a section. Run ``python -m ironauth.config.reference`` then.
"""

from ironauth.config.table import branding, moving_in, passwords, records, server, sessions, strangers

SECTIONS = (
    server.PROCESS,
    sessions.SESSIONS,
    sessions.OAUTH,
    strangers.STRANGERS,
    branding.BRANDING,
    passwords.PASSWORDS,
    passwords.FACTORS,
    passwords.THROTTLES,
    moving_in.MOVING_IN,
    records.MAIL,
    records.RECORDS,
    server.LANES,
    server.POOLS,
    server.STORAGE,
    server.TELEMETRY,
)
SETTINGS = {setting.name: setting for section in SECTIONS for setting in section.settings}
LIMITS = {setting.name: setting.limit for setting in SETTINGS.values() if setting.limit is not None}
