"""What `try-it` is made of: accounts, a hub, people at browsers, and somebody who looks on."""
