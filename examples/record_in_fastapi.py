"""Record an event in the transaction of a FastAPI application, by SQL: nothing of Tidings is installed here."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
from fastapi import FastAPI, HTTPException
from psycopg.types.json import Json
from pydantic import BaseModel, PositiveInt

DATABASE_URL = os.environ["DATABASE_URL"]
OWNER = os.environ.get("TIDINGS_OWNER", "default")

RECORD = "SELECT tidings.record(owner_id => %s, type => 'order.placed', subject => %s, data => %s)"


class Order(BaseModel):
    item: str
    number: PositiveInt


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    """Make the tables where they are missing."""
    async with await psycopg.AsyncConnection.connect(DATABASE_URL) as connection:
        await connection.execute(Path(__file__).with_name("shop.sql").read_text())
    yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=201)
async def place_order(order: Order) -> dict[str, str]:
    """Place an order, tell the world, take it from the stock: all three, or none."""
    wanted = order.model_dump()
    try:
        async with await psycopg.AsyncConnection.connect(DATABASE_URL) as connection:  # commits, or leaves nothing
            placed = await connection.execute(
                "INSERT INTO shop_order (item, number) VALUES (%(item)s, %(number)s) RETURNING id", wanted
            )
            [order_id] = await placed.fetchone()
            recorded = await connection.execute(RECORD, (OWNER, f"order/{order_id}", Json(wanted)))
            [event_id] = await recorded.fetchone()
            await connection.execute("UPDATE stock SET number = number - %(number)s WHERE item = %(item)s", wanted)
    except psycopg.errors.IntegrityError:  # refused after the event was recorded: it is gone with the order
        raise HTTPException(409, "there is not enough of that in stock") from None
    return {"order": str(order_id), "event": str(event_id)}
