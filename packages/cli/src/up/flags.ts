// Options of `brokkr up`.
export interface UpFlags {
  readonly foreground?: boolean
  readonly lite?: boolean
  readonly plain?: boolean
  readonly dir: string
  readonly port: string
  readonly clusters: string
  readonly kubeconfig?: string
  readonly databaseUrl?: string
}
