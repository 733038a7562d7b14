"""Tests of Blu: what holds for the whole repository here, the others in the folder of their subject."""
