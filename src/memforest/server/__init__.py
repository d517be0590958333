"""The server process: access, tenants, jobs, and the front ends over HTTP and stdio."""
