"""Arguments against input schemas, bounded in time, space and reach."""
