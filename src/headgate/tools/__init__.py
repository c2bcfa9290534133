"""What a model may call. Tools plan changes; the runtime carries them out."""
