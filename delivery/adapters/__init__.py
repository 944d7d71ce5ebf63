"""One folder a technology; only `delivery.app` names them."""
