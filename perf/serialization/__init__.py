"""The serialization trap: the same fifty objects by DRF's serializers and by msgspec Structs."""
