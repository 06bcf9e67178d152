// A real S3 service that a test may kill. The run's own one belongs to its Nessie.
import { join } from 'node:path'
import { callServers } from './owner/client.ts'
import { type S3Server, startS3 } from './s3-server.ts'

export type { S3Server }

/** A server of its own, to be killed and restarted. It ends with this process, the test file or the run, whichever is first. */
export async function privateS3(): Promise<S3Server> {
  const folder = await callServers('loan.folder', { kind: 'plain' })
  const server = await startS3({ dir: join(folder, 's3') })
  const noted = () => callServers('loan.note', { folder, processes: [server.process] })
  await noted()
  return Object.assign(Object.create(server) as S3Server, {
    start: async () => {
      await server.start()
      await noted()
    },
  })
}
