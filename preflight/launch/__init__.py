"""What will the launch files of a job do, do they agree, and does this cluster fit them? The front door is `check`."""
