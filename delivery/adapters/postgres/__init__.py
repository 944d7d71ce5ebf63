"""The PostgreSQL adapter: recording, outbox, jobs, attempts and stores. The only home of psycopg."""
