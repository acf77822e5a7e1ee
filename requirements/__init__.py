"""The pins of what IronAuth runs on, is developed with and audited by, and the commands that vouch for them."""
