-- The number of the last migration that was applied. Index: migration_pkey.
SELECT max(number) AS number FROM tidings.migration
