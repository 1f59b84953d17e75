// The sentence is text, whatever is in it.

query("#message").textContent = facts.message;
