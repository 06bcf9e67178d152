// A data server on the Java machine: with the flags that make its start short.
import { type DataServer, type DataServerOptions, startDataServer } from './data-server.ts'

export type JvmServerOptions = Omit<DataServerOptions, 'command'> & { java: string }
export type JvmServer = DataServer

/** Half the processor time of a start is compiling, and collecting in parallel takes threads from others. */
const quickStart = ['-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC']

export function startJvmServer({ java, args, ...options }: JvmServerOptions): Promise<JvmServer> {
  return startDataServer({ ...options, command: java, args: [...quickStart, ...args] })
}
