"""Every figure and table of the paper, from trained nets to a verdict on each claim."""

from equilibria.studies.base import Measure, Member, Row, Step, Study
from equilibria.studies.claims import Claim, Verdict
from equilibria.studies.correlation import Correlation
from equilibria.studies.reproduce import Audience, Outcome, reproduce
from equilibria.studies.scales import SCALES, Scale

STUDIES: dict[str, Study] = {study.name: study for study in (Correlation(),)}

__all__ = [
    "SCALES",
    "STUDIES",
    "Audience",
    "Claim",
    "Measure",
    "Member",
    "Outcome",
    "Row",
    "Scale",
    "Step",
    "Study",
    "Verdict",
    "reproduce",
]
