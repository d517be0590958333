"""The inspector: pages on which a person looks into a memory. Needs ``memforest[server]``."""

from memforest.ui.app import ui_app
from memforest.ui.entering import Ticket, TicketAccess

__all__ = ["Ticket", "TicketAccess", "ui_app"]
