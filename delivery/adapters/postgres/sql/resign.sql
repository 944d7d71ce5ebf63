-- Give the leadership up at once.
UPDATE tidings.leader SET until = '-infinity' WHERE name = %(name)s AND holder = %(holder)s
