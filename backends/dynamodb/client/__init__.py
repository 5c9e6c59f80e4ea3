"""DynamoDB's requests as values, and how they are sent: settings, signing, HTTP, the vendor's clients, retries."""
