#!/bin/sh
# Make the role and the database of IronAuth: once, as Postgres' superuser. The image of Postgres runs this by itself when
# its volume is new. The password is read from a file, so that no list of processes shows it.
: "${IRONAUTH_DATABASE_PASSWORD_FILE:?names the file with the password of the role ironauth}"
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'END'
\set password `cat "$IRONAUTH_DATABASE_PASSWORD_FILE"`
CREATE ROLE ironauth LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD :'password';
-- Sorted by code points, which no update of the C library changes (an index that was sorted otherwise finds nothing),
-- with upper and lower case of every script, which the admin's search needs.
CREATE DATABASE ironauth OWNER ironauth ENCODING 'UTF8' LOCALE 'C.UTF-8' TEMPLATE template0;
REVOKE CONNECT ON DATABASE ironauth FROM PUBLIC;
END
