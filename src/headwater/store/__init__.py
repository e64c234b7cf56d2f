"""The log under every stream: segments that survive anything and cost almost nothing."""
