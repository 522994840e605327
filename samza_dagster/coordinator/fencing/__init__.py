"""What takes the tasks from a container that nobody has seen dead: logins and rules at the brokers."""
