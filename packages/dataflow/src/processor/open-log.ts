// Log of a program that runs a flow: every line is redacted and has the flow's namespace and name.
import { createLog, type Log } from '@brokkr/runtime/logging/log.ts'
import type { ProcessorConfig } from './config.ts'

export function createFlowLog(
  { logLevel, identity }: Pick<ProcessorConfig, 'logLevel' | 'identity'>,
  redact: (text: string) => string,
): Log {
  const destination = { write: (line: string) => process.stdout.write(redact(line)) }
  const log = createLog({ name: 'brokkr-dataflow-processor', level: logLevel, destination })
  return log.child({ dataflow_namespace: identity.namespace, dataflow_name: identity.name })
}
