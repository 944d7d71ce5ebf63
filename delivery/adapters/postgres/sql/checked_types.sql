-- The types whose events are checked, of which there are few beside all types; reads the whole table.
SELECT type, exposure, description, schema, checks FROM tidings.event_type WHERE checks <> 'off'
