"""The Laplace approximation: the mode, the curvature there, and the stepsize that follows from them."""
