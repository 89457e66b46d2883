"""Device placement: operators on accelerators and CPUs, for throughput.

The problem is that of Tarnawski, Phanishayee, Devanur, Mahajan and Nina Paravecino, "Efficient Algorithms for Device
Placement of DNN Graph Operators", NeurIPS 2020. `piper.place` is the way in.
"""
