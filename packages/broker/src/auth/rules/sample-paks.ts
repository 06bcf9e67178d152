// Hashes of published sample PAKs. A broker rejects them unless broker.allow_sample_pak is set.
export const sampleHashes: readonly string[] = ['4c697273df3d764cba950bb5c04368097685f09259f5bd880d892cf1ff9f4cdd']

export const isSampleHash = (hash: string): boolean => sampleHashes.includes(hash)
