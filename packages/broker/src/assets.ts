// Where files that are read at run time lie: beside the sources, or beside the bundle that was made from them.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** The worker of large manifests. */
export function manifestWorkerFile(from: string = import.meta.dirname): URL {
  const places = ['manifest-worker.ts', 'manifest-worker.js'].map((name) => join(from, name))
  const found = places.find((place) => existsSync(place))
  if (found === undefined) throw new Error(`the worker of the broker is missing; looked for ${places.join(' and ')}`)
  return pathToFileURL(found)
}

export function migrationsDir(from: string = import.meta.dirname): string {
  const places = [join(from, '..', 'migrations'), join(from, 'migrations')]
  const found = places.find((place) => existsSync(place))
  if (found === undefined) throw new Error(`the migrations of the broker are missing; looked in ${places.join(' and ')}`)
  return found
}
