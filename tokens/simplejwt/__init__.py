"""The paths of djangorestframework-simplejwt, for front ends that must not change."""
