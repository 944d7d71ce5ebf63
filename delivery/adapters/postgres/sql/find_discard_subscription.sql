-- Say whether anybody subscribes to discarded deliveries. Index: subscription_discards.
SELECT EXISTS (
  SELECT FROM tidings.subscription WHERE patterns && ARRAY[
    'tidings.delivery.discarded', 'tidings.delivery.*', 'tidings.*', 'tidings.*.discarded', 'tidings.*.*']
) AS found
