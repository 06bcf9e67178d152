// Options of the commands that work on flows in a cluster.
export interface FlowFlags {
  readonly namespace?: string
  readonly kubeconfig?: string
  readonly output: string
}
export interface SteerFlags extends FlowFlags {
  readonly wait?: boolean
  readonly timeout: string
}
export interface ReplayCommandFlags extends SteerFlags {
  readonly from?: string
  readonly to?: string
  readonly max?: string
}
export interface TapFlags extends Omit<FlowFlags, 'output'> {
  readonly address?: string
  readonly count?: string
}
export interface DeadLetterFlags extends FlowFlags {
  readonly count: string
  readonly allowLoopback?: boolean
}
