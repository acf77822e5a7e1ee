"""Tests of moving people in and out."""
