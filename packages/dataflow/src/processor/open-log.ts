// The log of a program that runs a flow: every line passes the filter, whatever wrote it, and says whose it is.
import { createLog, type Log } from '@brokkr/runtime/log.ts'
import type { ProcessorConfig } from './config.ts'

export function openLog({ logLevel, identity }: Pick<ProcessorConfig, 'logLevel' | 'identity'>, redact: (text: string) => string): Log {
  const destination = { write: (line: string) => process.stdout.write(redact(line)) }
  const log = createLog({ name: 'brokkr-dataflow-processor', level: logLevel, destination })
  return log.child({ dataflow_namespace: identity.namespace, dataflow_name: identity.name })
}
