"""Record an event in the transaction of a Flask application: `order.placed` stands exactly where the order does."""

import os
from pathlib import Path

import psycopg
from flask import Flask, jsonify, request

import delivery

DATABASE_URL = os.environ["DATABASE_URL"]
OWNER = os.environ.get("TIDINGS_OWNER", "default")

recorder = delivery.recorder()


def create_app() -> Flask:
    """Make the application, and its tables where they are missing."""
    with psycopg.connect(DATABASE_URL) as connection:
        connection.execute(Path(__file__).with_name("shop.sql").read_text())
    app = Flask(__name__)
    app.add_url_rule("/orders", view_func=place_order, methods=["POST"])
    return app


def place_order():
    """Place an order, tell the world, take it from the stock: all three, or none."""
    wanted = request.get_json()
    order = {"item": str(wanted["item"]), "number": int(wanted["number"])}
    try:
        with psycopg.connect(DATABASE_URL) as connection:  # commits at the end, rolls back on an error
            [order_id] = connection.execute(
                "INSERT INTO shop_order (item, number) VALUES (%(item)s, %(number)s) RETURNING id", order
            ).fetchone()
            event_id = recorder.with_(connection).record(OWNER, "order.placed", f"order/{order_id}", order)
            connection.execute("UPDATE stock SET number = number - %(number)s WHERE item = %(item)s", order)
    except psycopg.errors.IntegrityError:  # refused after the event was recorded: it is gone with the order
        return jsonify(error="there is not enough of that in stock"), 409
    return jsonify(order=order_id, event=str(event_id)), 201
