// Options of the commands of pipelines.
import type { Form } from '../../command.ts'

export interface PipelineFlags {
  readonly namespace?: string
  readonly output: Form
}
export interface ChangeFlags extends PipelineFlags {
  readonly reason?: string
  readonly revision?: string
  readonly to?: string[]
  readonly wait?: boolean
  readonly timeout: string
}
export interface HoldFlags {
  readonly namespace?: string
  readonly kubeconfig?: string
}
