"""Fencing by the brokers: logins and rules that end a container's ownership without its death."""
