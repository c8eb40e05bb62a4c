"""A chat model as the judge of translations: GEMBA-MQM, by any of our engines."""
