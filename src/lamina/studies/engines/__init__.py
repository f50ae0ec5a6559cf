"""Engines that run the cells of a grid."""
