"""Who a person is: users, roles, passwords."""
