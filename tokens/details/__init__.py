"""Types of authorization details (RFC 9396): what a request may ask for beyond scopes, as staff have registered it."""
