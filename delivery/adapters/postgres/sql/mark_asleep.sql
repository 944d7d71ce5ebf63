-- A relay goes to sleep: recording must ring. It looks once more after this.
UPDATE tidings.doorbell SET awake_until = '-infinity' WHERE name = 'relay'
